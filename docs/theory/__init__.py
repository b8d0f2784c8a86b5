"""The theorems that claims cite. Installed as `certify.theory`, so that a page of a report can carry them."""
