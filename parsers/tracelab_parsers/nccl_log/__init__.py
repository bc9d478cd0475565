"""Reads logs in which NCCL or RCCL speak, whatever stands around their lines."""
