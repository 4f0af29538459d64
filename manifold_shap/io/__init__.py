"""Files: safe checkpoints, explanations as zarr stores, and streaming of many rows into one."""
