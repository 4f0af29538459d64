"""Lets others run what was learned: ONNX, `torch.export`."""
