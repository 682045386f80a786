"""The papers' tables, figures and case studies, run again: `run(folder, quick)` in each."""
