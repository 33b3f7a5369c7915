"""Import of ONNX models of convolutional networks; needs the extra ``onnx``, on a host."""
