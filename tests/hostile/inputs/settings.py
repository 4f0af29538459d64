"""Settings of estimators, trainings and output spaces that cannot be."""

import manifold_shap as ms
from tests.hostile.inputs.table import Input
from tests.hostile.inputs.things import ROWS, explained, explanation, imputed, model, value


def permuted(**settings: object) -> ms.Explanation:
    return ms.permutation_shapley(value, ROWS, **settings)  # type: ignore[arg-type]


def fitted(**settings: object) -> object:
    return ms.fit_surrogate(model, ROWS, **settings)  # type: ignore[arg-type]


INPUTS = [
    Input(
        "a seed of text",
        lambda _: explained(ROWS, seed="abc"),
        TypeError,
        "Expected `seed` to be a whole number from 0 to 9223372036854775807 but got 'abc' (str); 0 is as good as any other.",
    ),
    Input(
        "a seed of 1.5",
        lambda _: explained(ROWS, seed=1.5),
        TypeError,
        "Expected `seed` to be a whole number from 0 to 9223372036854775807 but got 1.5 (float); 0 is as good as any other.",
    ),
    Input(
        "a seed of None",
        lambda _: explained(ROWS, seed=None),
        TypeError,
        "Expected `seed` to be a whole number from 0 to 9223372036854775807 but got None (NoneType); 0 is as good as any other.",
    ),
    Input(
        "a seed of True",
        lambda _: explained(ROWS, seed=True),
        TypeError,
        "Expected `seed` to be a whole number from 0 to 9223372036854775807 but got True (bool); 0 is as good as any other.",
    ),
    Input(
        "a seed of -1",
        lambda _: explained(ROWS, seed=-1),
        ValueError,
        "Expected `seed` to be a whole number from 0 to 9223372036854775807 but got -1; 0 is as good as any other.",
    ),
    Input(
        "a seed of 2^63",
        lambda _: explained(ROWS, seed=2**63),
        ValueError,
        "Expected `seed` to be a whole number from 0 to 9223372036854775807 but got 9223372036854775808; 0 is as good as any other.",
    ),
    Input(
        "a seed of 10^400",
        lambda _: explained(ROWS, seed=10**400),
        ValueError,
        "Expected `seed` to be a whole number from 0 to 9223372036854775807 but got one of 1329 bits; 0 is as good as any other.",
    ),
    Input(
        "permutations='4'",
        lambda _: permuted(permutations="4"),
        TypeError,
        "Expected `permutations` to be a whole number of at least 1 but got '4' (str).",
    ),
    Input(
        "permutations=4.0",
        lambda _: permuted(permutations=4.0),
        TypeError,
        "Expected `permutations` to be a whole number of at least 1 but got 4.0 (float).",
    ),
    Input(
        "permutations=0",
        lambda _: permuted(permutations=0),
        ValueError,
        "Expected `permutations` to be a whole number of at least 1 but got 0.",
    ),
    Input(
        "batch_size='a'",
        lambda _: permuted(permutations=2, batch_size="a"),
        TypeError,
        "Expected `batch_size` to be a whole number of at least 1 but got 'a' (str).",
    ),
    Input(
        "batch_size=0",
        lambda _: permuted(permutations=2, batch_size=0),
        ValueError,
        "Expected `batch_size` to be a whole number of at least 1 but got 0.",
    ),
    Input(
        "evaluations of NaN",
        lambda _: permuted(evaluations=float("nan")),
        TypeError,
        "Expected `evaluations` to be a whole number of at least 1 but got nan (float).",
    ),
    Input(
        "evaluations and permutations",
        lambda _: permuted(evaluations=100, permutations=3),
        ValueError,
        "Expected one budget but got evaluations=100 and permutations=3; leave one of them out.",
    ),
    Input(
        "an unknown setting",
        lambda _: permuted(permutation=3),
        ValueError,
        "Expected settings of `permutation_shapley` among ['evaluations', 'permutations', 'target_error', 'ordering', 'outputs', 'seed', 'batch_size', 'progress'] but got ['permutation']; did you mean 'permutations' for 'permutation'?",
    ),
    Input(
        "target_error=0",
        lambda _: permuted(target_error=0.0),
        ValueError,
        "Expected `target_error` to be a finite number above 0 but got 0.0.",
    ),
    Input(
        "target_error of NaN",
        lambda _: permuted(target_error=float("nan")),
        ValueError,
        "Expected `target_error` to be a finite number above 0 but got nan.",
    ),
    Input(
        "target_error of text",
        lambda _: permuted(target_error="small"),
        TypeError,
        "Expected `target_error` to be a finite number above 0 but got 'small' (str).",
    ),
    Input(
        "progress='no'",
        lambda _: permuted(permutations=2, progress="no"),
        TypeError,
        "Expected `progress` to be true or false but got 'no' (str).",
    ),
    Input(
        "an unknown law",
        lambda _: ms.kernel_shapley(value, ROWS, law="lever"),
        ValueError,
        "Expected `law` to be one of ['leverage', 'kernel'] but got 'lever'; did you mean 'leverage'?",
    ),
    Input(
        "outputs that there are not",
        lambda _: ms.exact_shapley(imputed(), ROWS, outputs=["cat"]),
        ValueError,
        "Expected `outputs` to be one of ['0', '1'] but got 'cat'.",
    ),
    Input(
        "output number 7",
        lambda _: ms.exact_shapley(imputed(), ROWS, outputs=[7]),
        ValueError,
        "Expected `outputs` to be one of ['0', '1'] but got '7'.",
    ),
    Input(
        "output number -1",
        lambda _: ms.exact_shapley(imputed(), ROWS, outputs=[-1]),
        ValueError,
        "Expected `outputs` to be one of ['0', '1'] but got '-1'; did you mean '1'?",
    ),
    Input(
        "no outputs",
        lambda _: ms.exact_shapley(imputed(), ROWS, outputs=[]),
        ValueError,
        "Expected at least one output in `outputs` but got none.",
    ),
    Input(
        "an output twice",
        lambda _: ms.exact_shapley(imputed(), ROWS, outputs=[0, 0]),
        ValueError,
        "Expected distinct outputs but got ['0'] more than once; name each of them once.",
    ),
    Input(
        "outputs=0",
        lambda _: ms.exact_shapley(imputed(), ROWS, outputs=0),
        ValueError,
        "Expected `outputs` to be a whole number from 1 to 2 but got 0.",
    ),
    Input(
        "the five largest of two outputs",
        lambda _: ms.exact_shapley(imputed(), ROWS, outputs=5),
        ValueError,
        "Expected `outputs` to be a whole number from 1 to 2 but got 5.",
    ),
    Input(
        "draws=0",
        lambda _: ms.imputed_value(model, ms.MarginalImputer(ROWS), draws=0),
        ValueError,
        "Expected `draws` to be a whole number of at least 1 but got 0.",
    ),
    Input(
        "draws=1.5",
        lambda _: ms.imputed_value(model, ms.MarginalImputer(ROWS), draws=1.5),
        TypeError,
        "Expected `draws` to be a whole number of at least 1 but got 1.5 (float).",
    ),
    Input(
        "an unknown output space",
        lambda _: ms.imputed_value(model, ms.MarginalImputer(ROWS), "logits"),
        ValueError,
        "Expected `output` to be one of ['probability', 'identity', 'log_odds', 'ilr'] but got 'logits'.",
    ),
    Input(
        "an output space that is a number",
        lambda _: ms.as_space(3),
        TypeError,
        "Expected `output` to be one of ('probability', 'identity', 'log_odds', 'ilr'), or an output space such as `ms.ILR()`, but got 3.",
    ),
    Input(
        "zero_replacement=2",
        lambda _: ms.as_space("ilr", zero_replacement=2),
        ValueError,
        "Expected `zero_replacement` to be a finite number above 0 and of at most 0.5 but got 2; it is the share of probability that exact zeros get, such as ...",
    ),
    Input(
        "zero_replacement of NaN",
        lambda _: ms.LogOdds(float("nan")),
        ValueError,
        "Expected `zero_replacement` to be a finite number above 0 and of at most 0.5 but got nan; it is the share of probability that exact zeros get, such as ...",
    ),
    Input(
        "a unit for probabilities",
        lambda _: ms.as_space("probability", unit="euro"),
        ValueError,
        "Expected `unit` with output='identity' only but got 'euro' with output='probability', whose unit is 'probability'; leave it out.",
    ),
    Input(
        "a misspelled option",
        lambda _: fitted(patiense=3),
        ValueError,
        "Expected options of `fit_surrogate` among ... but got ['patiense']; did you mean 'patience' for 'patiense'?",
    ),
    Input(
        "learning_rate='fast'",
        lambda _: fitted(learning_rate="fast"),
        TypeError,
        "Expected `learning_rate` to be a finite number above 0 but got 'fast' (str).",
    ),
    Input(
        "learning_rate=-1",
        lambda _: fitted(learning_rate=-1),
        ValueError,
        "Expected `learning_rate` to be a finite number above 0 but got -1.",
    ),
    Input(
        "learning_rate of NaN",
        lambda _: fitted(learning_rate=float("nan")),
        ValueError,
        "Expected `learning_rate` to be a finite number above 0 but got nan.",
    ),
    Input(
        "max_epochs=0",
        lambda _: fitted(max_epochs=0),
        ValueError,
        "Expected `max_epochs` to be a whole number of at least 1 but got 0.",
    ),
    Input(
        "hidden=8",
        lambda _: fitted(hidden=8),
        ValueError,
        "Expected `hidden` to list layer widths, at least 1 of them, such as [512, 512], but got 8.",
    ),
    Input(
        "hidden=[0]",
        lambda _: fitted(hidden=[0]),
        ValueError,
        "Expected `hidden` to list layer widths, at least 1 of them, such as [512, 512], but got [0].",
    ),
    Input(
        "hidden=['a']",
        lambda _: fitted(hidden=["a"]),
        ValueError,
        "Expected `hidden` to list layer widths, at least 1 of them, such as [512, 512], but got ['a'].",
    ),
    Input(
        "an unknown activation",
        lambda _: fitted(activation="rellu"),
        ValueError,
        "Expected `activation` to be one of ['relu', 'gelu', 'silu', 'elu'] but got 'rellu'; did you mean 'relu'?",
    ),
    Input(
        "an unknown network",
        lambda _: fitted(network="resnet50"),
        ValueError,
        "Expected `network` to be one of ['mlp', 'conv', 'transformer', 'model'] but got 'resnet50'.",
    ),
    Input(
        "an unknown schedule",
        lambda _: fitted(schedule="cosin"),
        ValueError,
        "Expected `schedule` to be one of ['one_cycle', 'cosine', 'constant'] but got 'cosin'; did you mean 'cosine'?",
    ),
    Input(
        "training batches of no rows",
        lambda _: fitted(batch_size=0),
        ValueError,
        "Expected `batch_size` to be a whole number of at least 1 but got 0.",
    ),
    Input(
        "a directory that is a file",
        lambda here: (here / "f").touch() or fitted(directory=here / "f", max_epochs=1),
        FileExistsError,
        "[Errno 17] Could not write ... (File exists); free some space or choose another place. Nothing there was changed.",
        slow=True,
    ),
    Input(
        "a directory with a null byte",
        lambda here: fitted(directory=f"{here}/a\0b", max_epochs=1),
        ValueError,
        "Expected `directory` to be text without null bytes but got '...\\x00b'; leave them out.",
    ),
    Input(
        "a directory that is a number",
        lambda _: fitted(directory=3, max_epochs=1),
        TypeError,
        "Expected `directory` to be text but got 3 (int).",
    ),
    Input(
        "an unknown device",
        lambda _: fitted(trainer={"accelerator": "warp"}, max_epochs=1),
        ValueError,
        "Expected `trainer` settings that Lightning and this machine can run but got {'accelerator': 'warp'}: You selected an invalid accelerator name: `accelerator='warp'`. Available names are...",
        slow=True,
    ),
    Input(
        "an unknown setting of the trainer",
        lambda _: fitted(trainer={"max_epoch": 3}, max_epochs=1),
        ValueError,
        "Expected `trainer` settings that Lightning and this machine can run but got {'max_epoch': 3}: Trainer.__init__() got an unexpected keyword argument 'max_epoch'",
        slow=True,
    ),
    Input(
        "devices=-3",
        lambda _: fitted(trainer={"devices": -3}, max_epochs=1),
        ValueError,
        "Expected `trainer` settings that Lightning and this machine can run but got {'devices': -3}: `devices` selected with `CPUAccelerator` should be an int > 0.",
        slow=True,
    ),
    Input(
        "a trainer that is text",
        lambda _: fitted(trainer="gpu", max_epochs=1),
        TypeError,
        "Expected `trainer` to be a dict of arguments of `lightning.Trainer`, such as {'accelerator': 'gpu'}, but got str.",
    ),
    Input(
        "another training row shape to validate",
        lambda _: fitted(x_validation=ROWS[:, :2], max_epochs=1),
        ValueError,
        "Expected `x_validation` of shape (rows, 3) but got (4, 2); pass rows of the shape that `players` own, and one row as `x_validation[:1]`.",
    ),
    Input(
        "a learning rate at which a training diverges",
        lambda _: ms.fit_surrogate(model, ROWS.repeat(50, 1), learning_rate=1e30, max_epochs=3),
        ValueError,
        "Expected a finite training loss of the surrogate but it is nan in step 20: the training diverged, and nothing of it ... `learning_rate` (it is 1e+30), or clip gradients by trainer={'gradient_clip_val': 1.0}.",
        slow=True,
    ),
    Input(
        "an imputer that diverges",
        lambda _: ms.fit_imputer(ROWS.repeat(50, 1), learning_rate=1e30, max_epochs=3),
        ValueError,
        "Expected a finite training loss of the vae but it is nan in step 20: the training diverged, and nothing of it counts as ... `learning_rate` (it is 1e+30), or clip gradients by trainer={'gradient_clip_val': 1.0}.",
        slow=True,
    ),
    Input(
        "unlabelled rows for global values",
        lambda _: ms.global_values(explanation(), None),
        ValueError,
        "Expected labels of shape (rows,), one per row, 4 of them, but got ().",
    ),
    Input(
        "too few labels for global values",
        lambda _: ms.global_values(explanation(), [0, 1]),
        ValueError,
        "Expected labels of shape (rows,), one per row, 4 of them, but got (2,).",
    ),
    Input(
        "a label of no class",
        lambda _: ms.global_values(explanation(), [0, 1, 7, 0]),
        ValueError,
        "Expected labels to be among the outputs ('0', '1'), or to be their positions where no output is named by a number, but got ['7'].",
    ),
    Input(
        "labels that are NaN",
        lambda _: ms.global_values(explanation(), [0, 1, float("nan"), 0]),
        ValueError,
        "Expected labels to be among the outputs ('0', '1'), or to be their positions where no output is named by a number, but got ['0.0', '1.0', 'nan'].",
    ),
    Input(
        "labels of text that name no output",
        lambda _: ms.global_values(explanation(), ["cat"] * 4),
        ValueError,
        "Expected labels to be among the outputs ('0', '1'), or to be their positions where no output is named by a number, but got ['cat'].",
    ),
]
