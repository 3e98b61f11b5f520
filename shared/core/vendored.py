"""The files of npm packages that pages load."""

VENDORED_FILES = {
    "@picocss/pico/css/pico.min.css": (
        "2.1.1",
        "MIT",
        "fbc9a63fc9fc9f72d12fd7fc9806e11fa9f77ae4f9cad146b27003a1119ba3db",
    ),
    "htmx.org/dist/htmx.min.js": (
        "2.0.11",
        "0BSD",
        "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717",
    ),
}
"""Files of npm packages that pages load, by their path below `node_modules`: version, licence and SHA-256. The Lambda
bundle contains copies."""
