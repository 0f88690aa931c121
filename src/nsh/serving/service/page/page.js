<!doctype html>
<p>soon</p>
