"""What the child does."""

from __future__ import annotations

from dulwich.client import HTTPUnauthorized, SSHGitClient
from dulwich.errors import GitProtocolError, HangupException, NotGitRepository, SendPackError
from dulwich.file import FileLocked

from postern.domain.runbook import Repository
from postern.errors import Invalid, PosternError, Unavailable
from postern.integrations.git import git_writing, messages, trees
from postern.integrations.git.git_http import HttpClient
from postern.integrations.git.git_places import RepositoryPlace, Way, place_of
from postern.integrations.git.local import Local
from postern.integrations.git.meter import Meter
from postern.integrations.git.remotes import ByDulwich, Remote, moved

OF_TOKENS = "oauth2"  # who has a token alone: what GitLab wants, and GitHub and Gitea do not look at


def do(request: messages.GitRequest) -> bytes:
    """Raises PosternError."""
    repository, policy = request.repository, request.policy
    place = place_of(repository.git_url, policy)
    try:
        if request.task == "check":
            if place.scheme == "ssh":
                _check_ssh(repository, place)
            return messages.answer({})
        remote = _remote(place, repository, request)
        if request.task == "write" and request.writing is not None:
            return messages.answer({"commit": git_writing.write(remote, repository.branch, request.writing)})
        taken = remote.take(repository.branch)
        if taken.head is None:
            raise Invalid("the repository is empty; commit something to it first")
        return messages.of_snapshot(trees.snapshot_of(taken.objects, taken.head, policy.limits))
    except (PosternError, MemoryError):
        raise
    except (GitProtocolError, HTTPUnauthorized, HangupException, NotGitRepository, SendPackError) as error:
        raise Unavailable(f"{place.authority} ended this: {str(error)[:300]!r}") from None
    except FileLocked:
        raise moved() from None
    except OSError as error:
        raise Unavailable(f"the repository cannot be read: {error.strerror or type(error).__name__}") from None
    except Exception as error:  # dulwich raises what it stumbles over in bytes that are no pack, object or packet
        raise Unavailable(f"the repository cannot be read as one of git ({type(error).__name__})") from None


def _remote(place: RepositoryPlace, repository: Repository, request: messages.GitRequest) -> Remote:
    policy = request.policy
    if place.scheme == "file":
        return Local(place, policy.folders)
    way, meter = Way(place, policy, request.seconds), Meter(policy.limits.received)
    if place.scheme == "ssh":
        from postern.integrations.git.git_ssh import Ssh

        vendor = Ssh(place, way, meter, repository, request.seconds)
        return ByDulwich(SSHGitClient(place.host, vendor=vendor, thin_packs=False), place.path, policy.limits)
    password = repository.git_password.reveal()
    user = repository.git_user or OF_TOKENS
    return ByDulwich(HttpClient(place, way, meter, policy.authority, user, password), place.path, policy.limits)


def _check_ssh(repository: Repository, place: RepositoryPlace) -> None:
    """Raises Invalid."""
    from postern.integrations.git.git_ssh import key_of, known_hosts_of

    key_of(repository)
    known_hosts_of(repository, place)
