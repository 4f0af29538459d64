"""What stays through every rebuilding: the powers that users have, and tests that hold each.

A test may move or be renamed, and its line here with it; a power may not lose its last one.
"""

import ast
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent

# Of each power, tests of the default suite.
KEPT: dict[str, list[str]] = {
    "surrogate and VAE as Lightning modules and data modules, in a Trainer of one's own": [
        "training/test_lightning.py::test_a_trainer_of_ones_own_trains_them"
    ],
    "the masked-encoder VAE (Frye et al., Eq. 13): posterior='encoder'": [
        "vae/test_vae.py::test_the_loss_is_the_bound",
        "vae/test_vae.py::test_the_masked_encoder_never_sees_what_is_absent",
    ],
    "experiment=paper_vae": [
        "cli/test_train.py::test_the_vae_of_the_paper_is_trained_and_explains"
    ],
    "the mean squared error of a value function (Frye et al., Eq. 16)": [
        "test_metrics.py::test_mse_is_the_mean_over_pairs",
        "test_metrics.py::test_debiased_removes_the_variance_of_the_draws_and_no_other",
    ],
    "retraining (Frye et al., Eq. 10)": [
        "values/test_retrained.py::test_values_are_those_of_models_fitted_by_hand",
        "test_global_values.py::test_retrained_models_give_the_sum_of_their_accuracies",
    ],
    "naive Bayes (Lemaire et al., Eq. 10)": [
        "test_naive_bayes.py::test_values_are_those_of_enumeration"
    ],
    "weight of evidence (Lemaire et al., Eq. 15)": [
        "test_naive_bayes.py::test_evidence_is_the_change_in_odds_without_the_feature"
    ],
    "adaptive sampling (Noé et al., Algorithm 2)": [
        "estimators/test_adaptive.py::test_samples_go_where_contributions_vary",
        "estimators/test_adaptive.py::test_estimates_agree_with_exact_values_within_their_errors",
    ],
    "its adjustment to the sum (Noé et al., Eqs. 28 and 29)": [
        "estimators/test_adaptive.py::test_adjusted_values_have_the_sum_and_the_errors_of_a_linear_map"
    ],
    "Shapley compositions in log-ratios of any partition": [
        "simplex/test_compositions.py::test_another_basis_changes_coordinates_and_nothing_else",
        "simplex/test_compositions.py::test_efficiency",
    ],
    "bandwidths by AICc": [
        "imputers/test_empirical.py::test_aicc_is_the_criterion_of_hurvich_et_al"
    ],
    "causal chain graphs with confounding": [
        "imputers/test_causal.py::test_means_are_those_under_intervention",
        "imputers/test_causal.py::test_one_confounded_component_is_the_marginal_game",
        "imputers/test_causal.py::test_causal_values_on_a_chain_equal_the_closed_form",
    ],
    "causal graphs (DAGs)": [
        "test_ordering.py::test_values_equal_the_mean_over_all_allowed_permutations",
        "test_ordering.py::test_interventions_of_a_graph_reach_effects_alone",
    ],
    "weights of orders, w(π)": [
        "test_ordering.py::test_of_listed_orders_the_weighted_mean_is_exact",
        "test_ordering.py::test_sampled_orders_are_unbiased_with_honest_errors",
    ],
    "contrastive values": [
        "imputers/test_marginal.py::test_contrastive_values_are_the_means_over_the_rows_to_compare_with"
    ],
    "a classifier of one's own by its file": [
        "cli/test_own_models.py::test_a_pipeline_is_explained_on_its_own_frame_without_a_training",
        "models/test_files.py::test_a_model_comes_back_as_it_was",
    ],
    "a classifier of one's own by its name in Python": [
        "cli/test_own_models.py::test_a_regression_is_explained_in_its_own_unit"
    ],
    "a value function by its checkpoint": [
        "cli/test_explain.py::test_a_checkpoint_of_another_kind_serves_too"
    ],
    "both commands on MNIST, offline": [
        "cli/test_mnist.py::test_both_commands_run_offline_and_leave_the_folder_as_it_was"
    ],
    "training on two devices": ["training/test_devices.py::test_two_devices_take_the_steps_of_one"],
    "explaining rows beyond memory": [
        "io/test_streaming.py::test_blocks_are_what_the_estimator_gives_for_them",
        "io/test_streaming.py::test_interruptions_change_no_byte",
    ],
    "training on rows beyond memory": [
        "vae/test_stored.py::test_the_same_imputer_wherever_rows_lie"
    ],
}


@pytest.mark.parametrize("power", KEPT)
def test_tests_that_hold_it_are_there_and_run(power: str) -> None:
    for named in KEPT[power]:
        path, _, name = named.partition("::")
        tree = ast.parse((FOLDER / path).read_text())
        tests = [each for each in ast.walk(tree) if getattr(each, "name", None) == name]
        assert len(tests) == 1, f"no {named}; name the test that holds {power!r} today"
        of_module = [each for each in tree.body if ast.unparse(each).startswith("pytestmark")]
        marks = " ".join(map(ast.unparse, (*tests[0].decorator_list, *of_module)))
        assert not re.search(r"mark\.(slow|notebook|gpu|skip|xfail)", marks), named
