"""A case in one folder, as someone else would write it: the mean of a row, which lies below its largest entry."""
