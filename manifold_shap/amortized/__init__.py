"""The amortised explainer: its network, its training and its estimator."""

from manifold_shap.amortized.explainer import AmortizedExplainer, amortized_shapley

__all__ = ["AmortizedExplainer", "amortized_shapley"]
