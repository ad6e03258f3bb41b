"""A connection of the Docker SDK that trusts whom it was told to trust.

In a module of its own, because `engine` has to load where there is no SDK.
"""

from typing import Any

from docker import APIClient


class Connection(APIClient):
    """An APIClient for which the authority of its own engine is stronger than REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE.

    `requests` prefers those variables, which a company's proxy may need, to what a session says.
    """

    def merge_environment_settings(self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any) -> Any:
        """Settings of a request, of which those of the session are one's own and no default."""
        return super().merge_environment_settings(url, proxies, stream, self.verify if verify is None else verify, cert)
