"""Lets others run what was learned: ONNX, archives of `torch.export`, the Hugging Face hub, MLflow."""
