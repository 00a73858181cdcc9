"""The peers, each with the settings that were the fastest of those tried.

These modules run in the peers' own environment (`make peers`), one process per round.
"""
