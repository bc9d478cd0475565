"""Wiring of machines: parsers of what states interfaces, cables and distances."""
