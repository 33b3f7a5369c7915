"""Streaming LDA (Deep SLDA): class means and the covariance within classes follow every image of a stream.

After Hayes and Kanan, "Lifelong Machine Learning with Deep Streaming Linear Discriminant Analysis", CVPR
workshops 2020. The published update weighs an outer product by the number of all images seen; here it is
weighed by those of its class, and the result is that of LDA fitted to all images at once, in any order.
"""

from tinytrain.heads.lda import Lda
from tinytrain.heads.scatter_head import CovarianceHead, ScatterMethod


class Slda(Lda):
    """LDA of the clean images alone, as a stream has no other ones; its delta keeps the covariance itself."""

    name, head = "slda", CovarianceHead
    shrinkage = 0.7
    sees_every_view = False
    buffers = ScatterMethod.buffers


METHOD = Slda()
