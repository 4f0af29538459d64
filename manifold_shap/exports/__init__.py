"""Lets others run what was learned: ONNX."""
