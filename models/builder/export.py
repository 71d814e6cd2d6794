"""Every artefact of one model, written into an empty folder; manifest.json comes last."""

import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import torch

from gateways.core.manifest import SCHEMA
from models.builder import half, parity, profile, repository, tensors
from models.builder.currency import DECODER, HANDLER, Accelerator, Precision, digests, photos, sha256
from models.builder.sources import Loaded, Origin, labels, load
from models.builder.spec import ImageSpec, Spec, TensorsSpec

OPSET = 17

Tensor = npt.NDArray[np.float32]


def export(spec: Spec, key: str, accelerator: Accelerator, directory: Path, precision: Precision = "fp32") -> Origin:
    """Write the artefacts of `spec` into `directory`. Raises BuildError where that cannot be done."""
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        about: dict[str, Any] = {}
        if isinstance(spec, TensorsSpec):
            origin: Origin = tensors.export(spec, directory, Path(scratch))
        else:
            assert isinstance(spec, ImageSpec)
            origin, about = image_model(spec, accelerator, directory, Path(scratch), precision)
    manifest(spec, origin, key, about, directory)
    return origin


def image_model(
    spec: ImageSpec, accelerator: Accelerator, directory: Path, scratch: Path, precision: Precision
) -> tuple[Origin, dict[str, Any]]:
    """Write every artefact of a photo model; returns further fields of its manifest."""
    # Debian's build of PyTorch stalls in this fuser.
    torch._C._jit_set_texpr_fuser_enabled(False)
    # The fused attention operator exists neither in ONNX nor in every PyTorch that may load the trace.
    torch.backends.mha.set_fastpath_enabled(False)
    loaded = load(spec, scratch)
    photographs = sample_tensors(spec, directory / "tensors")
    with torch.inference_mode():
        agreement = models(spec, loaded, photographs, directory, precision)
    if spec.labels:
        write_labels(spec, directory)
    triton(spec, loaded, accelerator, directory, precision)
    archive(spec, directory, scratch)
    about = {
        "preprocess": asdict(spec.preprocess),
        "embedding_dim": spec.embedding_dim,
        "classes": spec.classes,
        "parity": asdict(agreement),
    }
    return loaded, about


def sample_tensors(spec: ImageSpec, directory: Path) -> dict[str, Tensor]:
    """Every sample photo preprocessed, float32 [3, H, W] by photo name, and written as .npy."""
    directory.mkdir()
    tensors = {photo.stem: spec.preprocess.tensor(photo.read_bytes()) for photo in photos()}
    for name, tensor in tensors.items():
        np.save(directory / f"{name}.npy", tensor)
    return tensors


def models(
    spec: ImageSpec, loaded: Loaded, tensors: dict[str, Tensor], directory: Path, precision: Precision = "fp32"
) -> parity.Parity:
    """Write model.pt and the ONNX file, and hold both against the PyTorch module; the answer is ONNX's agreement.

    With fp16 both compute in it; with tf32 they are FP32, and a GPU rounds as it multiplies.
    """
    names, batch = list(tensors), np.stack(list(tensors.values()))
    wanted = [output.numpy() for output in loaded.module(torch.from_numpy(batch))]
    shapes = {name: output.shape[1:] for name, output in zip(spec.outputs, wanted, strict=True)}
    if shapes != {name: (width,) for name, width in spec.outputs.items()}:
        raise spec.wrong(f"the model answers {shapes}, the spec says {spec.outputs}")

    example = torch.from_numpy(batch[:2])  # two images: a batch of one would be traced as a constant by some models
    script = directory / "model.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about shapes that become constants: the image size does; batches are checked
        traced = half.traced(loaded.module, example) if precision == "fp16" else torch.jit.trace(loaded.module, example)
        traced.save(str(script))
        onnx_file = directory / "repository" / spec.name / "1" / "model.onnx"
        write_onnx(spec, loaded, example, onnx_file)
        if precision == "fp16":
            half.convert(onnx_file)
    traced = torch.jit.load(str(script))
    options = onnxruntime.SessionOptions()
    if precision == "fp16":  # what else it optimises for a CPU ends the process with some FP16 graphs: its issue 28392
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = onnxruntime.InferenceSession(str(onnx_file), options, providers=["CPUExecutionProvider"])
    forms: dict[str, Callable[[Tensor], list[Tensor]]] = {
        "TorchScript": lambda part: [output.numpy() for output in traced(torch.from_numpy(part))],
        "ONNX": lambda part: session.run(None, {"image": part}),
    }
    limits = parity.FP16 if precision == "fp16" else parity.FP32
    for form, run in forms.items():  # two batch sizes: the first photo alone, and the others
        answers = [np.concatenate(pair) for pair in zip(run(batch[:1]), run(batch[1:]), strict=True)]
        agreement = parity.check(form, names, wanted, answers, limits)
    return agreement


def write_onnx(spec: ImageSpec, loaded: Loaded, example: torch.Tensor, path: Path) -> None:
    """Dynamic batch: input `image`, outputs as the spec names them. Opset 17, where it was not ONNX before."""
    path.parent.mkdir(parents=True)
    if loaded.graph:
        shutil.copyfile(loaded.graph, path)
        return
    names = ["image", *spec.outputs]
    torch.onnx.export(
        loaded.module,
        (example,),
        str(path),
        opset_version=OPSET,
        input_names=names[:1],
        output_names=names[1:],
        dynamic_axes={name: {0: "batch"} for name in names},
        dynamo=False,
    )
    onnx.checker.check_model(str(path))


def write_labels(spec: ImageSpec, directory: Path) -> None:
    """labels.txt: one label a line, by class index."""
    lines = labels(spec.labels)
    if len(lines) != spec.classes:
        raise spec.wrong(f"{len(lines)} labels, but classes = {spec.classes}")
    (directory / "labels.txt").write_text("".join(f"{line}\n" for line in lines))


def triton(
    spec: ImageSpec, loaded: Loaded, accelerator: Accelerator, directory: Path, precision: Precision = "fp32"
) -> None:
    """Complete the Triton model repository around the ONNX file.

    <model>; <model>_trt with the same weights; <model>_jpeg.
    """
    models = directory / "repository"
    file, twin = (models / name / "1" / "model.onnx" for name in (spec.name, f"{spec.name}_trt"))
    shapes = {"image": [repository.MAX_BATCH, *repository.image_shape(spec)]}
    if unknown := profile.unknown(file, shapes, directory) if accelerator == "gpu" else []:
        why = f"the shape of {unknown[0]} does not follow from the batch"
        print(f"models: {spec.name}_trt has no TensorRT profile: {why}", flush=True)
    for path, checksum in ((file, ""), (twin, sha256(file))):
        folder = path.parents[1]
        path.parent.mkdir(parents=True, exist_ok=True)
        text = repository.config(
            spec, folder.name, loaded.weights, accelerator, checksum, precision, profiled=not unknown
        )
        (folder / "config.pbtxt").write_text(text)
        if spec.labels:
            shutil.copyfile(directory / "labels.txt", folder / "labels.txt")
    try:
        os.link(file, twin)
    except OSError:  # a file system without hard links
        shutil.copyfile(file, twin)
    triton_jpeg(spec, models)


def triton_jpeg(spec: ImageSpec, models: Path) -> None:
    """<model>_jpeg in the repository `models`: <model>_preprocess and then <model>, which must be there."""
    for name, text in repository.jpeg_configs(spec).items():
        (models / name / "1").mkdir(parents=True)
        (models / name / "config.pbtxt").write_text(text)
    shutil.copyfile(DECODER, models / f"{spec.name}_preprocess" / "1" / "model.py")


def archive(spec: ImageSpec, directory: Path, scratch: Path) -> None:
    """The TorchServe archive: the handler and model.pt. The handler reads the manifest and labels in the artefacts."""
    from model_archiver.model_archiver_config import ModelArchiverConfig
    from model_archiver.model_packaging import generate_model_archive

    target = directory / "mar"
    target.mkdir()
    config = ModelArchiverConfig(
        model_name=spec.name,
        version="1.0",
        serialized_file=str(directory / "model.pt"),
        handler=str(HANDLER),
        export_path=str(target),
        archive_format="zip-store",
    )
    # The archiver copies everything to <temporary folder>/<model> first: not into a container's memory.
    before, tempfile.tempdir = tempfile.tempdir, str(scratch)
    try:
        generate_model_archive(config)
    finally:
        tempfile.tempdir = before


def manifest(spec: Spec, origin: Origin, key: str, about: Mapping[str, Any], directory: Path) -> None:
    """Write manifest.json atomically. Its presence says that all other files are complete."""
    names = sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())
    data = {
        "schema": SCHEMA,
        "model": spec.name,
        "kind": spec.kind,
        "weights": origin.weights,
        "weights_source": origin.source,
        **about,
        "build_key": key,
        "files": digests(directory, names),
    }
    partial = directory / "manifest.json.partial"
    partial.write_text(json.dumps(data, indent=1) + "\n")
    partial.rename(directory / "manifest.json")
