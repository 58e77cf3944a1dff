"""Simulators of chat platforms: HTTP servers on this machine that unmodified SDKs talk to.

A simulator refuses what its platform refuses, plays faults on request, and shows what a person in the chat sees. Each
platform has a package. The other modules are for all platforms: `simulator` starts the server and has the URLs for
people, `api_server` plays the faults of a call, records it and answers it, `http_faults` cuts answers short, `pace`
counts calls against the rates of a platform, `visible` has the history that people see, `page` shows it in a
browser, and `platform_rules` is the form of the refusals and their sources.
"""
