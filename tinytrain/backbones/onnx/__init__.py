"""Import of ONNX models of the MobileNetV2 kind; needs the extra ``onnx``, on a host."""
