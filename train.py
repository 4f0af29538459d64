"""Trains a classifier and a value function: `python train.py data=mnist`; see --help."""

from manifold_shap.cli import main_train

if __name__ == "__main__":
    main_train()
