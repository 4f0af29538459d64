"""Explains test rows with a trained value function: `python explain.py data=mnist`; see --help."""

from manifold_shap.cli import main_explain

if __name__ == "__main__":
    main_explain()
