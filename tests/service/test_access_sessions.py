from surefoot.service.access import SESSION_SECONDS, Sessions


def test_sessions_cannot_be_forged_stretched_or_taken_to_another_study():
    ours, theirs = Sessions(b"a" * 32), Sessions(b"b" * 32)
    session = ours.new("0123456789ab", at=0.0)
    assert ours.read(session, at=1.0) == "0123456789ab"
    assert ours.read(session, at=SESSION_SECONDS + 1.0) is None
    assert theirs.read(session, at=1.0) is None
    prefix, expires, nonce, signature = session.split(".")
    for forged in (
        f"ffffffffffff.{expires}.{nonce}.{signature}",
        f"{prefix}.{int(expires) + 1}.{nonce}.{signature}",
        f"{prefix}.{expires}.{nonce}",
        ours.form_token(session),
        "",
        session + "\n",
    ):
        assert ours.read(forged, at=1.0) is None
    assert ours.form_token(session) != ours.form_token(ours.new("0123456789ab", at=0.0))
