"""The recorded models: how each is built, its input, and the throughput to which its times are
scaled.

They are built from configurations, with random weights; nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import torch
import transformers
from torch import nn

Inputs = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Published:
    """One GPU's training throughput as published, and where."""

    batch: int
    samples_per_s: float
    source: str

    @property
    def iteration_s(self) -> float:
        return self.batch / self.samples_per_s


@dataclass(frozen=True)
class Model:
    """How to build a model and its input. Times of a CPU are scaled to ``published``."""

    build: Callable[[], nn.Module]
    inputs: Callable[[int], Inputs]
    description: str
    shape: str
    loss: str
    published: Published


class Vgg16(nn.Module):
    """VGG-16 without batch normalisation (Simonyan and Zisserman 2015, table 1, column D)."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for width, depth in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
            for _ in range(depth):
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
                channels = width
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Flatten(),
            *(nn.Linear(512 * 7 * 7, 4096), nn.ReLU(inplace=True), nn.Dropout()),
            *(nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout()),
            nn.Linear(4096, classes),
        )
        # Initialised as by He et al. 2015, like torchvision: with PyTorch's defaults, signals
        # vanish in so deep a stack.
        for layer in self.features:
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, pixel_values: torch.Tensor, labels: torch.Tensor) -> SimpleNamespace:
        guesses = self.classifier(self.features(pixel_values))
        return SimpleNamespace(loss=nn.functional.cross_entropy(guesses, labels))


def _images(batch: int) -> Inputs:
    return {
        "pixel_values": torch.randn(batch, 3, 224, 224),
        "labels": torch.randint(0, 1000, (batch,)),
    }


def _sentences(batch: int, length: int = 128, vocabulary: int = 30522) -> Inputs:
    words = torch.randint(0, vocabulary, (batch, length))
    # As in pre-training, 15 % of the words must be guessed; the loss ignores labels of -100.
    hidden = torch.rand(batch, length) < 0.15
    return {
        "input_ids": words,
        "attention_mask": torch.ones_like(words),
        "token_type_ids": torch.zeros_like(words),
        "labels": torch.where(hidden, words, torch.full_like(words, -100)),
        "next_sentence_label": torch.randint(0, 2, (batch,)),
    }


def _text(batch: int, length: int = 1024, vocabulary: int = 50257) -> Inputs:
    words = torch.randint(0, vocabulary, (batch, length))
    return {"input_ids": words, "labels": words}


def _resnet(depths: tuple[int, ...], bottleneck: bool = True) -> nn.Module:
    widths = [256, 512, 1024, 2048] if bottleneck else [64, 128, 256, 512]
    config = transformers.ResNetConfig(
        embedding_size=64,
        hidden_sizes=widths,
        depths=list(depths),
        layer_type="bottleneck" if bottleneck else "basic",
        num_labels=1000,
    )
    return transformers.ResNetForImageClassification(config)


def _bert_base() -> nn.Module:
    return transformers.BertForPreTraining(transformers.BertConfig())


def _bert_large() -> nn.Module:
    config = transformers.BertConfig(
        hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096
    )
    return transformers.BertForPreTraining(config)


def _gpt2() -> nn.Module:
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(use_cache=False))


def _timm(name: str, batch: int, samples_per_s: float) -> Published:
    """A row of timm's training benchmark: forward, backward and optimizer, without data loading."""
    return Published(
        batch,
        samples_per_s,
        f"{samples_per_s} img/s, batch {batch}, on 1 x RTX 3090, automatic mixed precision, "
        "channels last, PyTorch 1.12, CUDA 11.3: huggingface/pytorch-image-models, "
        f"results/benchmark-train-amp-nhwc-pt112-cu113-rtx3090.csv, row {name}",
    )


def _vision(build: Callable[[], nn.Module], description: str, published: Published) -> Model:
    return Model(build, _images, description, "3 x 224 x 224", "cross entropy", published)


def _bert(build: Callable[[], nn.Module], name: str, published: Published) -> Model:
    return Model(
        build=build,
        inputs=_sentences,
        description=f"{name} uncased with its pre-training heads, masked words (decoder tied to "
        "the word embedding) and next sentence (transformers BertForPreTraining)",
        shape="128 words",
        loss="masked-word plus next-sentence cross entropy, 15 % of words masked",
        published=published,
    )


_RESNET = "1000 classes (transformers ResNetForImageClassification)"
_BERT_README = "NVIDIA/DeepLearningExamples, PyTorch/LanguageModeling/BERT/README.md"

MODELS = {
    "resnet18": _vision(
        partial(_resnet, (2, 2, 2, 2), bottleneck=False),
        f"ResNet-18, {_RESNET}",
        _timm("resnet18", 512, 3481.78),
    ),
    "resnet50": _vision(
        partial(_resnet, (3, 4, 6, 3)),
        f"ResNet-50 v1.5, {_RESNET}",
        Published(
            batch=256,
            samples_per_s=1200,
            source="1200 img/s on 1 x V100 16 GB (DGX-1), mixed precision: "
            "NVIDIA/DeepLearningExamples, "
            "PyTorch/Classification/ConvNets/resnet50v1.5/README.md, 'Training performance: "
            "NVIDIA DGX-1 16GB', pytorch-21.03; batch 256 a GPU is that of the same repository's "
            "PyTorch/Classification/ConvNets/configs.yml",
        ),
    ),
    "resnet101": _vision(
        partial(_resnet, (3, 4, 23, 3)),
        f"ResNet-101 v1.5, {_RESNET}",
        _timm("resnet101", 256, 747.89),
    ),
    "resnet152": _vision(
        partial(_resnet, (3, 8, 36, 3)),
        f"ResNet-152 v1.5, {_RESNET}",
        _timm("resnet152", 192, 501.44),
    ),
    "vgg16": _vision(
        Vgg16,
        "VGG-16 without batch normalisation, 1000 classes (workloads/models.py)",
        _timm("vgg16", 384, 546.06),
    ),
    "bert-base": _bert(
        _bert_base,
        "BERT-base",
        Published(
            batch=96,
            samples_per_s=641.511,
            source="641.511 sequences/s of 128 words, batch 96, on 1 x V100-SXM2 32 GB, mixed "
            "precision, pre-training phase 1 with NVIDIA's PyTorch code: PaddlePaddle/Perf, "
            "Bert/OtherReports/PyTorch/README.md, table of results",
        ),
    ),
    "bert-large": _bert(
        _bert_large,
        "BERT-large",
        Published(
            batch=64,
            samples_per_s=224,
            source="224 sequences/s of 128 words on 1 x V100 32 GB (DGX-1), mixed precision, "
            f"pre-training: {_BERT_README}, 'Pre-training NVIDIA DGX-1 With 32G'; batch 64 is its "
            "4096 sequences in 64 accumulation steps, so one accumulation step is an iteration",
        ),
    ),
    "gpt2": Model(
        build=_gpt2,
        inputs=_text,
        description="GPT-2 small, head tied to the word embedding (transformers GPT2LMHeadModel)",
        shape="1024 words",
        loss="next-word cross entropy",
        published=Published(
            batch=64,
            samples_per_s=64 / 0.3,
            source="~300 ms a step of 64 sequences of 1024 words a GPU on 8 x A100 80 GB SXM, "
            "bfloat16, with the all-reduce over NVLink: karpathy/llm.c, scripts/run_gpt2_124M.sh",
        ),
    ),
}
