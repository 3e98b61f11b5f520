"""/docs: the documentation of the API for the engineers who use it.

contents     the list of pages
content/     the text of each page, in Markdown; `markdown` turns it into HTML
examples     a request of a page as curl, Python and JavaScript
tables       what the pages show of the code's own data: errors, limits, statuses, test numbers, events
samples      an event of each type, derived as the service derives it
plain        the pages as Markdown for programs: `/docs/{page}.md`, `/llms.txt`; `/robots.txt` and `/sitemap.xml`
highlighting colors the code of all languages
reference    the operations, objects and webhooks of the OpenAPI document, with their guides
search       finds sections and operations by words
pages        the responses: pages, search results, the reference, assets

Every example is run by `tests/conformance/test_docs.py`. Only a request for a page imports this package.
"""
