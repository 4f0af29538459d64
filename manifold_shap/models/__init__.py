"""Models to explain: one adapter for each kind, and what they return, checked."""

from manifold_shap.models.kinds import predictor_of as predictor_of
from manifold_shap.models.model import Model as Model
from manifold_shap.models.model import as_model as as_model
from manifold_shap.models.model import whole_dtype as whole_dtype
from manifold_shap.models.outputs import check_numbers as check_numbers
from manifold_shap.models.predictor import Predictor as Predictor
from manifold_shap.models.rows import whole as whole
