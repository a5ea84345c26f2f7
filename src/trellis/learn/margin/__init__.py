"""Large-margin learning: perceptron, MIRA, structural SVMs, and learning structures from yes/no answers."""
