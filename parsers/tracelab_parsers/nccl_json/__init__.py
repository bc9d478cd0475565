"""What the readers of NCCL's JSON output share: lines, exact numbers, amounts of operations, rows and counted notices."""
