"""What has a closed form: principal directions, rotations, whitening."""
