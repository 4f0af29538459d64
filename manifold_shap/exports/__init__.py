"""Lets others run what was learned: ONNX, `torch.export`, the Hugging Face hub, MLflow."""
