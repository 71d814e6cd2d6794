"""The model builder: makes the artefacts, and writes which model is served.

Variables: MODEL (default efficientnet_lite0, with a GPU openclip_vit_b32) and MODEL_REPOSITORY declare what is served,
unless a swap has chosen since; ACCELERATOR (cpu or gpu; default cpu) and PRECISION (fp32, tf32 or fp16; default fp32)
are what the artefacts are for, ARTIFACTS (default /artifacts) where. Exit 1: one line says why. Exit 3: `next` was
asked for what is served already.
"""

import os
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path

from gateways.core.serving import NAME, NEXT, ServingError
from models.builder.build import accelerator, locked, make_current, precision
from models.builder.serving import prepare, serve
from models.builder.spec import BuildError, Spec

# Without a GPU a model that needs no hub and answers in milliseconds; with one the published study's.
DEFAULT_MODELS = {"cpu": "efficientnet_lite0", "gpu": "openclip_vit_b32"}
ALREADY_SERVED = 3


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit code."""
    parser = ArgumentParser("python -m models.builder", None, __doc__, formatter_class=RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    build = commands.add_parser("build", help="make the artefacts of a model, or nothing where they are current")
    build.add_argument("model", nargs="?", default="", help="default: what is declared, which is served then")
    build.add_argument("--force", action="store_true", help="also when current, e.g. now that a hub can be reached")
    following = commands.add_parser("next", help="make another model ready to be swapped in")
    following.add_argument("source", help="a model of models/, or - for a repository as a tar on stdin")
    following.add_argument("--model", default="", help="the one to serve, of a repository that holds several")
    commands.add_parser("commit", help="serve what `next` made ready")
    options = parser.parse_args(arguments)
    artifacts = Path(os.environ.get("ARTIFACTS", "/artifacts"))
    declared = {name: os.environ.get(name, "") for name in ("MODEL", "MODEL_REPOSITORY")}
    if declared["MODEL_REPOSITORY"] == os.devnull:  # Compose mounts this where MODEL_REPOSITORY is not set
        declared["MODEL_REPOSITORY"] = ""
    default = DEFAULT_MODELS[accelerator()]
    subject = ""
    try:
        precision()  # refused also for a repository that is served as it is
        with locked(artifacts):
            if options.command == "commit":
                (artifacts / NEXT).replace(artifacts / NAME)
            elif options.command == "next":
                if not (new := prepare(artifacts, options.source, options.model)):
                    return ALREADY_SERVED
                print(new)
            elif options.model:
                subject = f"{options.model}: "
                make_current(Spec.load(options.model), artifacts, force=options.force)
            else:
                subject = f"{declared['MODEL_REPOSITORY'] or declared['MODEL'] or default}: "
                serve(artifacts, declared, default, force=options.force)
    except (BuildError, ServingError) as error:
        print(f"models: error: {subject}{error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
