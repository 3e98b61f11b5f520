"""The CDK app: `cdk synth`, `cdk deploy`, or `python -m infra.app` to write the templates alone.

The stage is the context value `stage` (`cdk deploy --context stage=prod`); its settings stand in cdk.json.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from aws_cdk import App
from aws_cdk import aws_lambda as lambda_

from infra import bundle
from infra.backup import CopiesStack
from infra.stack import ServiceStack
from infra.stage import BadSetting, Stage, described

OUTPUT = "cdk.out"


class UnknownStage(Exception):
    """cdk.json describes no such stage."""


def context() -> dict[str, Any]:
    """The context values of cdk.json, which only the CDK's command line hands to an app by itself."""
    found: dict[str, Any] = json.loads((bundle.ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    return found


def stage_of(app: App) -> Stage:
    """The stage that this app is to describe. Raises UnknownStage and BadSetting."""
    name, stages = app.node.get_context("stage"), app.node.get_context("stages")
    if name not in stages:
        raise UnknownStage(f"no stage {name!r} in cdk.json; there are {', '.join(sorted(stages))}")
    return described(name, stages[name])


def describe(app: App, stage: Stage, code: lambda_.Code) -> ServiceStack:
    """Make the stacks of a stage; the service's own."""
    made = ServiceStack(app, stage=stage, code=code)
    if stage.backup:
        # The vault of the copies is there before a backup can be copied.
        made.add_dependency(CopiesStack(app, stage=stage, settings=stage.backup))
    return made


def main() -> int:
    """Synthesise the stage that the context names; the exit status."""
    # The command line's own values go before those given here.
    app = App(context=context(), outdir=os.environ.get("CDK_OUTDIR", OUTPUT), analytics_reporting=False)
    try:
        stage = stage_of(app)
        # Another platform is for a trial elsewhere than on Lambda (`make test-deploy`).
        built = bundle.build(platform=app.node.try_get_context("bundle_platform") or bundle.PLATFORM)
    except (UnknownStage, BadSetting, bundle.BundleError) as problem:
        print(f"infra.app: {problem}", file=sys.stderr)
        return 1
    print(f"Lambda asset: {built}", file=sys.stderr)
    # The digest leaves bytecode out, so that a change of the compiler alone deploys nothing.
    describe(app, stage, lambda_.Code.from_asset(str(built.folder), asset_hash=built.digest))
    app.synth()
    return 0


if __name__ == "__main__":
    sys.exit(main())
