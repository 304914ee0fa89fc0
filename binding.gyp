# The addon as node-gyp builds it in a checkout. The package has native/gyp/binding.gyp alone: of a package that has this file at its root, npm
# shows `node-gyp rebuild` as the install script, and not the one that runs.
{
  "targets": [
    {
      "target_name": "addons",
      "type": "none",
      "dependencies": ["native/gyp/binding.gyp:*"]
    }
  ]
}
