"""Large-margin learning: perceptron, MIRA, structural SVMs, and learning structures from yes/no answers."""

from trellis.learn.margin.jlis import JLIS
from trellis.learn.margin.latent import LatentSSVM
from trellis.learn.margin.lclr import LCLR
from trellis.learn.margin.negatives import random_pairs, shuffled
from trellis.learn.margin.perceptron import MIRA, Perceptron
from trellis.learn.margin.ssvm import SSVM

__all__ = ["JLIS", "LCLR", "MIRA", "SSVM", "LatentSSVM", "Perceptron", "random_pairs", "shuffled"]
