"""What stays through every rebuilding: the powers that users have, and tests that hold each.

A test may move or be renamed, and its line here with it; a power may not lose its last one.
"""

import ast
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent

# Of each file, tests of the default suite, each beside the power that it holds.
KEPT = {
    "training/test_lightning.py": {
        "test_a_trainer_of_ones_own_trains_them": "surrogate and VAE in a Trainer of one's own",
    },
    "vae/test_vae.py": {
        "test_the_loss_is_the_bound": "VAE with a masked encoder (Frye et al., Eq. 13)",
        "test_the_masked_encoder_never_sees_what_is_absent": "the same: posterior='encoder'",
    },
    "cli/test_train.py": {
        "test_the_vae_of_the_paper_is_trained_and_explains": "experiment=paper_vae",
    },
    "test_metrics.py": {
        "test_mse_is_the_mean_over_pairs": "the mean squared error (Frye et al., Eq. 16)",
        "test_debiased_removes_the_variance_of_the_draws_and_no_other": "the same, without noise",
    },
    "values/test_retrained.py": {
        "test_values_are_those_of_models_fitted_by_hand": "retraining (Frye et al., Eq. 10)",
    },
    "test_global_values.py": {
        "test_retrained_models_give_the_sum_of_their_accuracies": "retraining, globally",
    },
    "test_naive_bayes.py": {
        "test_values_are_those_of_enumeration": "naive Bayes (Lemaire et al., Eq. 10)",
        "test_evidence_is_the_change_in_odds_without_the_feature": "weight of evidence (Eq. 15)",
    },
    "estimators/test_adaptive.py": {
        "test_samples_go_where_contributions_vary": "adaptive sampling (Noé et al., Algorithm 2)",
        "test_adjusted_values_have_the_sum_and_the_errors_of_a_linear_map": "Eqs. 28 and 29",
    },
    "simplex/test_compositions.py": {
        "test_another_basis_changes_coordinates_and_nothing_else": "ILR of any partition",
        "test_efficiency": "Shapley compositions",
    },
    "imputers/test_empirical.py": {
        "test_aicc_is_the_criterion_of_hurvich_et_al": "bandwidths by AICc",
    },
    "imputers/test_causal.py": {
        "test_means_are_those_under_intervention": "causal chain graphs",
        "test_one_confounded_component_is_the_marginal_game": "their confounding",
        "test_causal_values_on_a_chain_equal_the_closed_form": "causal Shapley values",
    },
    "test_ordering.py": {
        "test_values_equal_the_mean_over_all_allowed_permutations": "causal graphs (DAGs)",
        "test_interventions_of_a_graph_reach_effects_alone": "their interventions",
        "test_of_listed_orders_the_weighted_mean_is_exact": "weights of orders, w(π)",
        "test_sampled_orders_are_unbiased_with_honest_errors": "a function that draws orders",
    },
    "imputers/test_marginal.py": {
        "test_contrastive_values_are_the_means_over_the_rows_to_compare_with": "contrastive values",
    },
    "cli/test_own_models.py": {
        "test_a_pipeline_is_explained_on_its_own_frame_without_a_training": "a classifier's file",
        "test_a_regression_is_explained_in_its_own_unit": "a model by its name in Python",
    },
    "cli/test_explain.py": {
        "test_a_checkpoint_serves_other_classifiers_and_spaces": "a value function elsewhere",
    },
    "cli/test_mnist.py": {
        "test_both_commands_run_offline_and_leave_the_folder_as_it_was": "commands on MNIST",
    },
    "training/test_devices.py": {
        "test_two_devices_take_the_steps_of_one": "training on two devices",
    },
    "io/test_streaming.py": {
        "test_blocks_are_what_the_estimator_gives_for_them": "explaining rows beyond memory",
        "test_interruptions_change_no_byte": "going on after an interruption",
    },
    "vae/test_stored.py": {
        "test_the_same_imputer_wherever_rows_lie": "training on rows beyond memory",
    },
}


@pytest.mark.parametrize("path", KEPT)
def test_tests_that_hold_a_power_are_there_and_run(path: str) -> None:
    tree = ast.parse((FOLDER / path).read_text())
    defined = {getattr(each, "name", ""): each for each in ast.walk(tree)}
    of_module = [each for each in tree.body if ast.unparse(each).startswith("pytestmark")]
    for name, power in KEPT[path].items():
        assert name in defined, f"name the test that holds {power!r} today"
        marks = " ".join(map(ast.unparse, (*defined[name].decorator_list, *of_module)))
        assert not re.search(r"mark\.(slow|notebook|gpu|skip|xfail)", marks), name
