"""What the job would have done had something been different: each rank's work, contracted to what it waits for, run again."""
