"""Machines, their counters and the wires between them: what the job's network did, on the job's clock."""
