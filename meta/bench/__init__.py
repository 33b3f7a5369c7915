"""The benchmark: policies x backbones x packs x episodes, its log, and the report made from it."""
