"""Programs for those who develop Regard; none is part of the package."""
