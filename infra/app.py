"""The CDK app: `cdk synth`, `cdk deploy`, or `python -m infra.app` to write only the templates.

The stage is the context value `stage` (`cdk deploy --context stage=prod`). Its settings are in cdk.json.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from aws_cdk import App
from aws_cdk import aws_lambda as lambda_

from infra import bundle, releases
from infra.backup import CopiesStack
from infra.stack import ServiceStack
from infra.stack_names import EMERGENCY, HELD
from infra.stage import BadSetting, Stage, parse

OUTPUT = "cdk.out"


class UnknownStage(Exception):
    """cdk.json has no stage of this name."""


def context() -> dict[str, Any]:
    """The context values of cdk.json. Only the CDK's command line passes them to an app automatically."""
    found: dict[str, Any] = json.loads((bundle.ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    return found


def stage_of(app: App) -> Stage:
    """The stage that the context names. Raises UnknownStage and BadSetting."""
    name, stages = app.node.get_context("stage"), app.node.get_context("stages")
    if name not in stages:
        raise UnknownStage(f"no stage {name!r} in cdk.json; its stages are {', '.join(sorted(stages))}")
    return parse(name, stages[name])


def create_stacks(app: App, stage: Stage, code: lambda_.Code) -> ServiceStack:
    """Create the stacks of a stage. Returns the service's stack."""
    made = ServiceStack(app, stage=stage, code=code)
    if stage.backup:
        # The vault of the copies must exist before a backup can be copied.
        made.add_dependency(CopiesStack(app, stage=stage, settings=stage.backup))
    return made


def main() -> int:
    """Synthesize the stage that the context names. Returns the exit status."""
    # Context values of the command line override these.
    app = App(context=context(), outdir=os.environ.get("CDK_OUTDIR", OUTPUT), analytics_reporting=False)
    try:
        stage = stage_of(app)
        # `make test-deploy` builds for the platform on which it runs.
        built = bundle.build(platform=app.node.try_get_context("bundle_platform") or bundle.PLATFORM)
    except (UnknownStage, BadSetting, bundle.BundleError) as problem:
        print(f"infra.app: {problem}", file=sys.stderr)
        return 1
    print(f"Lambda asset: {built}", file=sys.stderr)
    # The digest excludes bytecode, so that a change of only the compiler deploys nothing.
    made = create_stacks(app, stage, lambda_.Code.from_asset(str(built.folder), asset_hash=built.digest))
    if app.node.try_get_context(EMERGENCY):
        releases.move_at_once(made.aliases)
    releases.hold(made.aliases, json.loads(app.node.try_get_context(HELD) or "{}"))
    app.synth()
    return 0


if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m infra.app",
        description=f"Write the CloudFormation templates of a stage to {OUTPUT}, or to the folder of CDK_OUTDIR. "
        "The CDK's command line runs this, as `make synth` runs that.",
    ).parse_args()
    sys.exit(main())
