"""Counters of adapters, switches and GPUs: what the parsers of all their formats share, and those parsers."""
