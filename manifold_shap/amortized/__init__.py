"""The amortised explainer: its network, its estimator and its training."""

from manifold_shap.amortized.explainer import AmortizedExplainer, amortized_shapley

__all__ = ["AmortizedExplainer", "amortized_shapley"]
