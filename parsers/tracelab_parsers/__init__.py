"""The formats that tracelab reads: one module or package each, and the readers of bytes and JSON that they share."""
