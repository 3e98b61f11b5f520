"""`python -m` of the package, installed or not."""

from .main import main

main()
