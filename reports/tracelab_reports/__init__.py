"""Reports: what people read. Each reads the result document (`tracelab.results`) and nothing else."""
