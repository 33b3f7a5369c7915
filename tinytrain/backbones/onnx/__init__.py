"""A model of our kind out of an ONNX file; needs the ``onnx`` extra, on a host."""
