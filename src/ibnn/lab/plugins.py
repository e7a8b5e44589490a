"""Modules of other people that register a dataset, a network, a listener, ... when imported.

They are found in two ways, by every command and by every worker process it starts:
`IBNN_PLUGINS=my_module,other.module` in the environment, or a package that declares

    [project.entry-points."ibnn.plugins"]
    mine = "my_package.my_module"
"""

import importlib
import os
from importlib import metadata

VARIABLE, GROUP = "IBNN_PLUGINS", "ibnn.plugins"


class PluginError(Exception):
    """A plugin that cannot be imported; the message is one line."""


def load_plugins() -> list[str]:
    """Import every plugin that is not yet imported; their names."""
    named = [name.strip() for name in os.environ.get(VARIABLE, "").split(",")]
    declared = [entry.value for entry in metadata.entry_points(group=GROUP)]
    found = list(dict.fromkeys(name for name in [*named, *declared] if name))
    for name in found:
        try:
            importlib.import_module(name.partition(":")[0])
        except Exception as error:
            reason = " ".join(str(error).split())
            raise PluginError(f"plugin {name}: {type(error).__name__}: {reason}") from error
    return found
