"""What the links of the job did, and which of them cost it time."""
