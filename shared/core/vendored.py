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
    "swagger-ui-dist/swagger-ui-bundle.js": (
        "5.35.0",
        "Apache-2.0",
        "e6a898692f2d768e807c3ba4626068a69a2c5dd960dd6c76f3e4d3a3de180af2",
    ),
    "swagger-ui-dist/swagger-ui.css": (
        "5.35.0",
        "Apache-2.0",
        "5ed08757e53da3e026d6cbecc61fe5d43585c9560b302d534ad56692519a273d",
    ),
}
"""Files of npm packages that pages load, by their path below `node_modules`: version, licence and SHA-256. The Lambda
bundle contains copies."""
