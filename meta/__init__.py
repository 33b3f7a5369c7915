"""The offline stage and the benchmark harness; runs on a host, never on the device."""

import os

# Workers are the parallelism. BLAS reads it when numpy is imported: its products are small here.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
