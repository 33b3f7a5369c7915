"""Data loaders, generated domains and episode samplers, each imported when it is first used."""

from importlib import import_module

_MODULES = {
    "dataset": ("Dataset",),
    "development": ("DEVELOPMENT",),
    "folder": ("folder_dataset", "folder_episode"),
    "generated": ("CLIPS", "DOMAINS"),
    "meta_dataset": ("TARGETS", "open_target"),
    "named": ("open_dataset",),
    "packs": ("PACKS", "load_pack"),
    "samplers": ("sample_episode", "sample_meta_dataset_episode"),
}
__all__ = [name for names in _MODULES.values() for name in names]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str):
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
